"""Files of models, checkpoints and tables: writing them safely, and reading untrusted ones."""
