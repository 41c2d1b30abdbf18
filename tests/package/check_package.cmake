# Installs a build into a fresh prefix, then configures, builds and runs external projects against it.
#   cmake -DBUILD=... -DWORK=... -DCOMPILER=... -DGENERATOR=... -P check_package.cmake
set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message("${output}")
    message(FATAL_ERROR "failed (${code}): ${command}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

function(build_project source folder)
  run(${CMAKE_COMMAND} -S ${source} -B ${folder} -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${COMPILER})
  run(${CMAKE_COMMAND} --build ${folder})
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

build_project(${CMAKE_CURRENT_LIST_DIR}/app ${WORK}/app)
run(${WORK}/app/app)
message("${output}")
if(NOT output MATCHES "loss fell")
  message(FATAL_ERROR "the external program printed something else")
endif()

# The engine alone needs no codecs and no predictions.
run(ldd ${WORK}/app/app)
if(output MATCHES "sentencepiece|pcre|jpeg|png")
  message(FATAL_ERROR "the engine links a codec: ${output}")
endif()
file(GLOB link_files ${WORK}/app/build.ninja ${WORK}/app/CMakeFiles/app.dir/link.txt)
list(GET link_files 0 link_file)
file(READ ${link_file} links)
if(links MATCHES "libtrireme_(foresee|data)")
  message(FATAL_ERROR "the engine links trireme::foresee or trireme::data")
endif()

# An installed header that includes one that was left behind would show only later, in somebody's project.
file(GLOB_RECURSE headers RELATIVE ${prefix}/include/trireme ${prefix}/include/trireme/*.h)
list(LENGTH headers num_headers)
if(num_headers LESS 10)
  message(FATAL_ERROR "only ${num_headers} headers were installed below ${prefix}/include/trireme")
endif()
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n")
file(WRITE ${WORK}/headers/all_headers.cc ${headers})
file(READ ${CMAKE_CURRENT_LIST_DIR}/app/CMakeLists.txt project)
string(REPLACE "add_executable(app app.cc)" "add_library(app OBJECT all_headers.cc)" project "${project}")
file(WRITE ${WORK}/headers/CMakeLists.txt "${project}")
build_project(${WORK}/headers ${WORK}/headers/build)

if(EXISTS ${prefix}/bin/trireme)
  run(${prefix}/bin/trireme --version)
  message("${output}")
endif()
