"""Small records beside the points, which several processes read and write."""
