"""Console, curves, TensorBoard, Weights & Biases, Prometheus."""
