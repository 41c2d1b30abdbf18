// The axes of the mesh, by name. Other code names them and never counts them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace trireme {

/// Outermost first: ranks that differ on the last axis alone are neighbours.
enum class Axis : std::uint8_t {
  kPipeline,  // stages that the blocks are cut into
  kData,    // ranks that hold the same blocks and split the global batch (ZeRO, FSDP: and share their state)
  kTensor,  // ranks that share the chunks of every block; they read the same samples
};

// For mesh/ alone: what it is made of.
inline constexpr std::array kAxes{Axis::kPipeline, Axis::kData, Axis::kTensor};

/// "pipeline", "data", "tensor".
std::string_view name(Axis axis);

/// A number for each axis; those that are not given have a default.
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

/// A rank's coordinates: Coord{{Axis::kPipeline, 1}, {Axis::kData, 0}}; 0 where none is given.
class Coord : public PerAxis {
 public:
  Coord(Given given = {}) : PerAxis(0, given) {}
};

}  // namespace trireme
