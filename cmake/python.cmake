# SPDX-License-Identifier: BSD-3-Clause
#
# What pyproject.toml puts into the wheel beside python/volley: the shared library, which ctypes
# loads, and the command, which `python -m volley` starts. A wheel holds no symbolic links, so the
# library has no version in its name there.
set_property(TARGET volley PROPERTY VERSION)
set_property(TARGET volley PROPERTY SOVERSION)
install(TARGETS volley LIBRARY DESTINATION volley COMPONENT python)
install(TARGETS volley_cli RUNTIME DESTINATION volley/bin COMPONENT python)
