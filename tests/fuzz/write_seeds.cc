// fuzz_seeds DIR: writes the valid inputs of every reader to DIR/READER/N, where libFuzzer begins.
#include <cstdio>

#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds DIR\n");
    return 2;
  }
  for (const trireme::fuzz::Reader& reader : trireme::fuzz::readers()) {
    int number = 0;
    for (const std::string& seed : reader.seeds()) {
      trireme::testing::write_file(std::filesystem::path(argv[1]) / reader.name / std::to_string(number++),
                                   seed);
    }
  }
  return 0;
}
