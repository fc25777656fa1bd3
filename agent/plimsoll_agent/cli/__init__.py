"""The commands, a file per noun; the composition root."""
