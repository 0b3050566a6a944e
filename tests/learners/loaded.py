"""What all learners of tests load: forked processes share it. torch loads a part of itself with the first optimizer."""

import hypothesis  # noqa: F401
import pytest  # noqa: F401
import torch

import tests.agents.learners
import tests.training.catch_runs  # noqa: F401

torch.optim.SGD([torch.zeros(1)])
