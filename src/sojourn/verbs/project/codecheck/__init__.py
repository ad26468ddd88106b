"""Traps of training code that its source shows, for `doctor --code`: read with `ast`, never imported and never run.

A file per theme; each rule yields sights under the id of a gotcha of the catalog. A rule that speaks of something
absent (no set_epoch, no scaler saved) looks at the whole project, for it may stand in another file.
"""
