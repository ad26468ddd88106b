"""What the Kubernetes backends share: the kubeconfig, the API, commands in pods, manifests, and what states mean."""
