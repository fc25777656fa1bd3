"""What runs inside a guest: fio job files, and the script that takes care of them."""
