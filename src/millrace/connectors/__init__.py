"""Where rows come from and where answers go, without Spark: formats, files, sinks."""
