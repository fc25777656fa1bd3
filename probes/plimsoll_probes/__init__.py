"""What guests and cluster really get, measured from inside."""
