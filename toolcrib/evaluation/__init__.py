"""Evaluation (extra `eval`): data sets, systems, measures, calibration and reports."""
