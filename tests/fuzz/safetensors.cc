// Fuzzes the reader of safetensors files.
#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/safetensors_writer.h"

#include <algorithm>

#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

int fuzz_safetensors(const std::uint8_t* data, std::size_t size) {
  const auto path = input_file("a.safetensors", as_text(data, size));
  taken([&] {
    const SafetensorsReader file(path);
    std::uint64_t bytes = 0;
    for (const SafetensorsTensor& tensor : file.tensors()) {
      bytes += tensor.data.size();
      require(&file.tensor(tensor.name) == &tensor, "a name leads to another tensor");
      std::vector<float> last(std::min<std::uint64_t>(tensor.num_elems, 8));
      taken([&] { file.copy_floats(tensor.name, tensor.num_elems - last.size(), last); });
    }
    require(bytes <= size, "the tensors have more bytes than the file");
  });
  return 0;
}

std::vector<std::string> files() {
  const auto path = scratch_folder() / "seed.safetensors";
  SafetensorsWriter writer(path, {{"w", "F32", {2, 3}}, {"none", "F32", {0, 7}}, {"b", "U8", {3}}},
                           {{"made_by", "a test"}, {"step", "12"}});
  writer.append(std::vector<float>{1, 2, 3, 4, 5, 6});
  writer.append(std::as_bytes(std::span("xyz", 3)));
  writer.commit();
  const std::string several = testing::read_file(path);
  SafetensorsWriter(path, {}).commit();
  return {several, testing::read_file(path)};
}

}  // namespace

const Reader kSafetensors{"safetensors", fuzz_safetensors, files};

}  // namespace trireme::fuzz
