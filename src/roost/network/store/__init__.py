"""The SQL of the network schema: model in, model out."""
