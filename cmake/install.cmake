# SPDX-License-Identifier: BSD-3-Clause
#
# What `cmake --install` lays down, and how others find it: find_package(volley) and pkg-config.
# Everything is relative to the prefix, so an installed tree can be moved.
#
# The shared and the static library have an export set each: who links the shared one needs nothing
# else, and must not be asked for a CUDA toolkit because the static one wants it.
include(CMakePackageConfigHelpers)

set(volley_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/volley)

install(TARGETS volley EXPORT volley_shared_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS volley_static EXPORT volley_static_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set_target_properties(volley PROPERTIES EXPORT_NAME volley)
set_target_properties(volley_static PROPERTIES EXPORT_NAME volley_static)
foreach(kind shared static)
  install(EXPORT volley_${kind}_targets NAMESPACE volley::
    FILE volley-${kind}-targets.cmake DESTINATION ${volley_package_dir})
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/volley DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET volley_cli)
  install(TARGETS volley_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/volley-config.cmake.in
  ${PROJECT_BINARY_DIR}/volley-config.cmake INSTALL_DESTINATION ${volley_package_dir})
# Before 1.0 a new minor version may change the ABI.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/volley-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/volley-config.cmake
  ${PROJECT_BINARY_DIR}/volley-config-version.cmake DESTINATION ${volley_package_dir})

# pkg-config: the prefix is found from where volley.pc lies (pcfiledir).
file(RELATIVE_PATH volley_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(volley_pc_private_libs "-lstdc++ -lm -pthread")
if(CMAKE_DL_LIBS)
  string(APPEND volley_pc_private_libs " -l${CMAKE_DL_LIBS}")
endif()
if(VOLLEY_WITH_CUDA)
  string(PREPEND volley_pc_private_libs "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt ")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/volley.pc.in ${PROJECT_BINARY_DIR}/volley.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/volley.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
