// Damage of JPEGs that is detected ([Note: damaged JPEGs] in jpeg_decode.cc), and changes that are not
// damage.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/rng.h"
#include "runtime/data/image_decode.h"
#include "tests/support/picture_files.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::encode_jpeg;
using ::testing::HasSubstr;
using testing::message_of;

constexpr int kWidth = 120, kHeight = 88;

std::uint32_t random_word(std::uint32_t a, std::uint32_t b) {
  return philox4x32({a, b, 0, 0}, {3, 7})[0];
}

/// An image with the detail of a photograph: edges, shades and noise.
std::vector<std::uint8_t> photograph() {
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const bool inside = std::hypot(x - 60, y - 40) < 30 || (x / 13 + y / 9) % 3 == 0;
      const double shade = 60 + 50 * std::sin(x * 0.13 + y * 0.05) + (inside ? 70 : 0);
      for (std::uint32_t channel = 0; channel < 3; ++channel) {
        const auto noise =
            static_cast<int>(random_word(static_cast<std::uint32_t>(y * kWidth + x), channel) % 25);
        pixels.push_back(static_cast<std::uint8_t>(shade + 10 * channel + noise));
      }
    }
  }
  return pixels;
}

std::string photograph_file(bool progressive, int quality = 85) {
  return encode_jpeg({.width = kWidth, .height = kHeight, .quality = quality, .progressive = progressive},
                     photograph());
}

Image decode(const std::string& bytes) {
  return decode_image({.bytes = std::as_bytes(std::span(bytes)), .name = "1.jpg", .max_pixels = 1 << 20});
}

bool is_refused(const std::string& bytes) {
  try {
    decode(bytes);
    return false;
  } catch (const BadImage&) {
    return true;
  }
}

/// The offset of the coded pixels: after the header of the first scan.
std::size_t first_coded(const std::string& file) {
  const std::size_t scan = file.find("\xFF\xDA");
  EXPECT_NE(scan, std::string::npos);
  return scan + 2 + static_cast<unsigned char>(file[scan + 3]);
}

struct Damage {
  const char* name;
  int bytes;  // consecutive bytes
  enum class Kind { kBit, kRandom, kZero, kCutOut } kind;
  double baseline, progressive;  // minimum share of images that are rejected
};

std::string damaged(const std::string& file, const Damage& damage, std::uint32_t number) {
  std::string bytes = file;
  const std::size_t first = first_coded(file), end = file.size() - 2;  // the end marker stays
  const auto count = static_cast<std::size_t>(damage.bytes);
  const std::size_t at = first + random_word(number, 99) % (end - first - count);
  if (damage.kind == Damage::Kind::kCutOut) return bytes.erase(at, count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = random_word(number, static_cast<std::uint32_t>(i));
    char& byte = bytes[at + i];
    if (damage.kind == Damage::Kind::kBit) byte = static_cast<char>(byte ^ (1 << word % 8));
    if (damage.kind == Damage::Kind::kRandom) byte = static_cast<char>(word);
    if (damage.kind == Damage::Kind::kZero) byte = 0;
  }
  return bytes;
}

// The format has no checksum. The test checks the rate that libjpeg detects, so that a change of the rules
// shows.
TEST(JpegDamage, MostOfItIsNoticed) {
  constexpr std::uint32_t kTries = 150;
  using enum Damage::Kind;
  // Measured with libjpeg-turbo 2.1: 13 and 36 %, 21 and 51, 45 and 81, 77 and 87, 29 and 95, 26 and 100.
  for (const Damage& damage :
       {Damage{"one bit", 1, kBit, 0.05, 0.25}, Damage{"one byte", 1, kRandom, 0.12, 0.4},
        Damage{"16 bytes", 16, kRandom, 0.35, 0.7}, Damage{"64 bytes", 64, kRandom, 0.65, 0.75},
        Damage{"64 zeros", 64, kZero, 0.2, 0.85}, Damage{"40 bytes missing", 40, kCutOut, 0.15, 0.9}}) {
    for (const bool progressive : {false, true}) {
      const std::string file = photograph_file(progressive);
      std::uint32_t refused = 0;
      for (std::uint32_t i = 0; i < kTries; ++i) refused += is_refused(damaged(file, damage, i));
      const double share = static_cast<double>(refused) / kTries;
      fmt::print("{}, {}: {:.0f} % refused\n", damage.name, progressive ? "progressive" : "baseline",
                 100 * share);
      EXPECT_GE(share, progressive ? damage.progressive : damage.baseline) << damage.name;
    }
  }
}

TEST(JpegDamage, WhatIsCutOffIsAlwaysNoticed) {
  for (const bool progressive : {false, true}) {
    const std::string file = photograph_file(progressive, 60);
    // Every length near the end, where a decoder may have all the data it needs, and some lengths before.
    for (std::size_t size = 0; size < file.size(); size += size + 200 < file.size() ? 37 : 1) {
      EXPECT_TRUE(is_refused(file.substr(0, size))) << size << " of " << file.size();
    }
    EXPECT_FALSE(is_refused(file));
  }
}

TEST(JpegDamage, PaddingAndForeignBytesAreNoDamage) {
  for (const bool progressive : {false, true}) {
    const std::string file = photograph_file(progressive);
    const auto pixels = decode(file).pixels;
    const std::size_t end = file.size() - 2, tables = file.find("\xFF\xDB");
    const auto with = [&](std::size_t at, const std::string& bytes) {
      return std::string(file).insert(at, bytes);
    };
    // After the end: other files, as phones append them. Before the first scan: in front of the tables.
    for (const std::string& whole : {with(file.size(), std::string(5000, '\0')), with(file.size(), file),
                                     with(file.size(), "\xFF\xD8 x"), with(tables, "junk"),
                                     with(end, std::string(16, '\0')), with(end, std::string(7, '\xFF'))}) {
      EXPECT_EQ(decode(whole).pixels, pixels);
    }
    // libjpeg has read 8 bytes ahead and counts the other ones.
    for (const std::string& bad : {with(end, std::string(30, '\0')), with(end, "left over bits and bytes")}) {
      EXPECT_THAT(message_of([&] { decode(bad); }),
                  ::testing::AllOf(HasSubstr("1.jpg"), HasSubstr("extraneous bytes before marker 0xd9")));
    }
  }
}

}  // namespace
}  // namespace trireme
