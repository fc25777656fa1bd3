"""fio job files, and the script that runs them inside a guest. No modules."""
