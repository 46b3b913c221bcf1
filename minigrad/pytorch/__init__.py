"""What errors and the page "coming from PyTorch" read: what is absent, what differs, and which word was meant."""
