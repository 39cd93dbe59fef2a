"""Names for the NumPy arrays that kernels take and give."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Ints32: TypeAlias = NDArray[np.int32]
Uints16: TypeAlias = NDArray[np.uint16]
Hashes: TypeAlias = NDArray[np.uint64]
Bits: TypeAlias = NDArray[np.uint64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Bytes: TypeAlias = NDArray[np.uint8]
Numbers: TypeAlias = Ints | Floats
