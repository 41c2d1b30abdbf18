# cmake -DSOURCE=... -DVERSION=... -DOUTPUT=... -P block_interface.cmake: writes block_interface.h, with a hash of the
# sources that blocks share with a program.
set(hashes "")
file(GLOB files LIST_DIRECTORIES false ${SOURCE}/kernels/*.h
  ${SOURCE}/runtime/*.h ${SOURCE}/runtime/*.cc ${SOURCE}/runtime/base/*.h ${SOURCE}/runtime/base/*.cc
  ${SOURCE}/runtime/ops/*.h ${SOURCE}/runtime/ops/*.cc)
list(SORT files)
foreach(file IN LISTS files)
  file(SHA256 ${file} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 sources "${hashes}")
string(SUBSTRING ${sources} 0 16 sources)
configure_file(${SOURCE}/runtime/block_interface.h.in ${OUTPUT} @ONLY)
