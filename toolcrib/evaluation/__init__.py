"""Know how good it is: data sets, systems, measures, calibration and reports."""
