"""Tests of the console; a package, so that its browser ends with it."""
