"""Any environment of Gymnasium as the agent sees it: pictures, numbers and actions of all usual spaces."""
