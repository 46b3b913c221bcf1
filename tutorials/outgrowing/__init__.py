"""What the page outgrowing_numpy.md runs: a run of ours goes on in PyTorch (ddp.py) and comes back (handover.py)."""
