# The package: what `cmake --install` puts where, so that find_package(troupe) gives the target troupe::troupe: the runtime
# without net, for programs that embed it. The same target exists in this build under the same name.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(troupe_runtime INTERFACE)
target_link_libraries(troupe_runtime INTERFACE troupe_actors)
set_target_properties(troupe_runtime PROPERTIES EXPORT_NAME troupe)
add_library(troupe::troupe ALIAS troupe_runtime)

install(TARGETS troupe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS troupe_runtime troupe_actors troupe_core troupe_gpu troupe_cpu troupe_device troupe_model troupe_config troupe_bytes troupe_threads troupe_options
  EXPORT troupe_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Include paths stay those of the tree: "actors/embedding/caf_system.hpp" is include/troupe/actors/embedding/caf_system.hpp. The shells and what
# only they use stay here.
install(DIRECTORY actors config gpu DESTINATION include/troupe FILES_MATCHING PATTERN "*.hpp" PATTERN "gpu/cpu" EXCLUDE
  PATTERN "*_actor.hpp" EXCLUDE PATTERN "actors/runtime" EXCLUDE PATTERN "actors/fail_stop.hpp" EXCLUDE
  PATTERN "actors/embedding/client_sink.hpp" EXCLUDE PATTERN "actors/host_memory.hpp" EXCLUDE
  PATTERN "actors/session/prompt.hpp" EXCLUDE PATTERN "actors/clock.hpp" EXCLUDE)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
install(EXPORT troupe_targets FILE troupe_targets.cmake NAMESPACE troupe:: DESTINATION ${package_folder})
configure_package_config_file(tools/cmake/troupe-config.cmake.in ${CMAKE_BINARY_DIR}/troupe-config.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/troupe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/troupe-config.cmake ${CMAKE_BINARY_DIR}/troupe-config-version.cmake
  tools/cmake/FindCAF.cmake DESTINATION ${package_folder})
