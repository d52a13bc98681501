"""SQL of the compute service, and nothing else: model in, model out."""
