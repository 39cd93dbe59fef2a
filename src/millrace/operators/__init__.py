"""What is done to batches: selecting, hashing keys, putting rows in canonical order."""
