"""The words of the compute service as frozen structs, which all its rooms speak."""
