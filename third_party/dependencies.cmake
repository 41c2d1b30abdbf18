# Everything Trireme links, all from the distribution (see third_party/README.md). Nothing is downloaded here.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(DNNL REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(SentencePiece REQUIRED)
find_package(PCRE2 REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)

# The CUDA backend, where it is requested.
include(third_party/cmake/cuda.cmake)
