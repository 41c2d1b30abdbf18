# Install and export: an external project does find_package(trireme) and links trireme::parallel, trireme::models, ...
#
#   include/trireme/          headers, laid out as in the repository: #include "runtime/tensor.h"
#   lib/                      static libraries
#   lib/cmake/trireme/        the package, with the find modules of dependencies that ship none
#   bin/trireme               the command
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(trireme_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/trireme)

# The launcher is a program, not an interface: its library stays at home.
get_property(trireme_libraries GLOBAL PROPERTY TRIREME_LIBRARIES)
list(REMOVE_ITEM trireme_libraries trireme_launcher)
install(TARGETS ${trireme_libraries} EXPORT trireme-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT trireme-targets NAMESPACE trireme:: DESTINATION ${trireme_package_dir})
if(TARGET trireme)
  install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_BINARY_DIR}/keys.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
endif()

# Headers that include a vendor's stay at home: below kernels/ all but the operator table, and what parallel/comm/mpi.cc
# is made of.
install(DIRECTORY runtime parallel models DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trireme
  FILES_MATCHING PATTERN "*.h" PATTERN "mpi_*.h" EXCLUDE PATTERN "nccl_*.h" EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/generated/runtime/block_interface.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trireme/runtime)
file(GLOB trireme_operator_headers CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/kernels/activation.h ${PROJECT_SOURCE_DIR}/kernels/backend*.h
  ${PROJECT_SOURCE_DIR}/kernels/op_table.h)
install(FILES ${trireme_operator_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trireme/kernels)

configure_package_config_file(
  third_party/trireme-config.cmake.in ${PROJECT_BINARY_DIR}/trireme-config.cmake
  INSTALL_DESTINATION ${trireme_package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/trireme-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/trireme-config.cmake
  ${PROJECT_BINARY_DIR}/trireme-config-version.cmake
  third_party/cmake/FindCUDNN.cmake
  third_party/cmake/FindDNNL.cmake
  third_party/cmake/FindNCCL.cmake
  third_party/cmake/FindPCRE2.cmake
  third_party/cmake/FindSentencePiece.cmake
  DESTINATION ${trireme_package_dir})
