"""What errors and the page "coming from PyTorch" read: what is absent, what differs, what moved, and which word was meant."""
