"""How each file format becomes typed rows and rejects."""
