"""Files of models, checkpoints and tables: what they hold, and what is believed of them."""
