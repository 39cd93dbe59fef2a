"""State is history: sorted runs, the manifests that name them, and the root they live in."""
