// The messages of a plan while it is simulated: which sends and receives belong together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "parallel/plan.h"

namespace trireme {

bool is_send(ActionKind kind);
bool is_receive(ActionKind kind);
/// The send that a receive of `rank` meets.
Action send_for(const Action& receive, int rank);

class PlanMessages {
 public:
  /// Where an action stands.
  struct Place {
    int rank = 0;
    std::size_t position = 0;
  };

  struct SendingRank {
    int rank = 0;
    int send_window = 1;
  };
  /// False while `send` would wait for an earlier one to be asked for. See [Note: what blocks].
  bool can_send(const Action& send, const SendingRank& from) const;
  /// Enter one side of a message. Return what is wrong where the other side is another message.
  std::optional<std::string> add_send(const Place& place, const Action& send);
  std::optional<std::string> add_receive(const Place& place, const Action& receive);

  /// Whether the message of a receive, entered or about to be, has been sent.
  bool has_arrived(int rank, const Action& receive) const;
  /// Whether all messages of a rank have been asked for.
  bool all_taken(int rank) const;

  struct Unmatched {
    Place place;
    int peer = 0;
  };
  /// A receive of `rank` that was entered and whose message has not been sent.
  std::optional<Place> waiting_receive(int rank) const;
  /// Anything that was entered on one side only.
  std::optional<Unmatched> unmatched_send() const;
  std::optional<Unmatched> unmatched_receive() const;

 private:
  enum class Way { kActivation, kGradient, kTiedGradient, kTiedParameters };
  // A way from rank to rank: what, the unit whose output or parameters it is about, source, destination.
  using Lane = std::tuple<Way, int, int, int>;
  struct Side {
    std::vector<int> micro_batches;
    std::vector<Place> places;
  };
  struct Traffic {
    Side sent, asked;
  };
  static Lane lane_of(int rank, const Action& action);
  static std::optional<std::string> disagreement(const Side& mine, const Side& other, const char* doing);

  std::map<Lane, Traffic> lanes_;
};

}  // namespace trireme
