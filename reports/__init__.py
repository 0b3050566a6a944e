"""What a person looks at: console, curves, TensorBoard, Weights & Biases, Prometheus."""
