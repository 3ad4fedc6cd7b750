"""The pages are doctests; the settings of Sphinx, the gallery and what a build makes are not."""

collect_ignore_glob = ["conf.py", "gallery/*", "figures/*", "auto_gallery/*", "generated/*", "_build/*"]
