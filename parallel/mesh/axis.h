// The axes of the mesh. Other code names them and never depends on their number.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace trireme {

/// Outermost first: ranks that differ only on the last axis are neighbours.
enum class Axis : std::uint8_t {
  kPipeline,  // pipeline stages
  kData,      // ranks with the same blocks; they split the global batch, and shard their state (ZeRO, FSDP)
  kTensor,    // ranks that share the chunks of every block and read the same samples
};

// For use in mesh/ only.
inline constexpr std::array kAxes{Axis::kPipeline, Axis::kData, Axis::kTensor};

/// "pipeline", "data", "tensor".
std::string_view name(Axis axis);

/// One number per axis; unspecified ones have a default.
class PerAxis {
 public:
  using Given = std::initializer_list<std::pair<Axis, int>>;
  int operator[](Axis axis) const { return values_[static_cast<std::size_t>(axis)]; }
  int& operator[](Axis axis) { return values_[static_cast<std::size_t>(axis)]; }
  bool operator==(const PerAxis&) const = default;

 protected:
  explicit PerAxis(int others, Given given) {
    values_.fill(others);
    for (const auto& [axis, value] : given) (*this)[axis] = value;
  }

 private:
  std::array<int, kAxes.size()> values_{};
};

/// A rank's coordinates: Coord{{Axis::kPipeline, 1}, {Axis::kData, 0}}; unspecified ones are 0.
class Coord : public PerAxis {
 public:
  Coord(Given given = {}) : PerAxis(0, given) {}
};

}  // namespace trireme
