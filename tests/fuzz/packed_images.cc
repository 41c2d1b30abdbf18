// CIFAR's binary files, and pairs of IDX files.
#include "runtime/data/packed_images.h"

#include <cstring>

#include "tests/fuzz/reader.h"

namespace trireme::fuzz {
namespace {

void look_at(const PackedImages& set) {
  set.fingerprint();
  set.largest_label();
  for (const std::int64_t index : {std::int64_t{0}, set.num_images() - 1}) {
    const auto image = set.load(index, [](ImageSize) { return 1; });
    require(static_cast<std::int64_t>(image->pixels.size()) == 3 * image->size.num_pixels(),
            "a picture has not the pixels of its size");
  }
}

int fuzz_cifar(const std::uint8_t* data, std::size_t size) {
  const auto path = input_file("data_batch_1.bin", as_text(data, size));
  taken([&] { look_at(*PackedImages::cifar({path})); });
  return 0;
}

std::vector<std::string> cifar_files() {
  const std::string pixels(3072, '\x40');
  return {"\x03" + pixels, "\x09" + pixels + "\x01" + pixels, "\x07\x63" + pixels};
}

// An input consists of the length of the label file in two bytes, that file, and the image file.
int fuzz_idx(const std::uint8_t* data, std::size_t size) {
  std::uint16_t label_bytes = 0;
  if (size < sizeof label_bytes) return 0;
  std::memcpy(&label_bytes, data, sizeof label_bytes);
  const std::string_view rest = as_text(data, size).substr(sizeof label_bytes);
  const auto labels = input_file("labels-idx1-ubyte", rest.substr(0, label_bytes));
  const auto images =
      input_file("images-idx3-ubyte", rest.substr(std::min<std::size_t>(label_bytes, rest.size())));
  taken([&] { look_at(*PackedImages::idx(images, labels)); });
  return 0;
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

std::vector<std::string> idx_pairs() {
  std::vector<std::string> pairs;
  for (const std::uint32_t count : {1, 3}) {
    const std::string labels = big_endian(0x801) + big_endian(count) + std::string(count, '\x02');
    const std::string images =
        big_endian(0x803) + big_endian(count) + big_endian(4) + big_endian(5) + std::string(count * 20, 'p');
    pairs.push_back(std::string{static_cast<char>(labels.size()), '\0'} + labels + images);
  }
  return pairs;
}

}  // namespace

const Reader kCifar{"cifar", fuzz_cifar, cifar_files};
const Reader kIdx{"idx", fuzz_idx, idx_pairs};

}  // namespace trireme::fuzz
