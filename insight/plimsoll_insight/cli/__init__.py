"""Commands, a file a noun: what is asked, and how the answer is shown. Nothing imports them."""
