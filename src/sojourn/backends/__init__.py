"""The outer world, one folder per port; a backend is one file in it, found by scanning the folder.

Imports: wire core store box train
Outside: numpy, safetensors, torch (loaders, when used)
"""
