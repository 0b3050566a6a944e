"""Where reports go: curves.png, TensorBoard, Weights & Biases, Prometheus."""
