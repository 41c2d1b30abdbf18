// The messages of a plan while it is simulated: which sends and receives belong together. See [Note: ways of
// a plan] in validate.h.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/plan/plan.h"

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
  enum class What : std::uint8_t { kActivations, kGradients, kTied };
  struct Way {
    What what = What::kActivations;
    int source = 0, destination = 0;
    auto operator<=>(const Way&) const = default;
  };
  // A message, by the action that sends it.
  struct Letter {
    ActionKind sent_by = ActionKind::kSendActivation;
    int unit = 0, micro_batch = 0;
    bool operator==(const Letter&) const = default;
    std::string to_string() const;
  };
  struct Side {
    std::vector<Letter> letters;
    std::vector<Place> places;
  };
  struct Traffic {
    Side sent, asked;
    std::map<std::pair<ActionKind, int>, int>
        not_asked;  // by kind and unit of the sends; below 0: asked before
  };
  static Way way_of(int rank, const Action& action);
  static Letter letter_of(int rank, const Action& action);
  static std::optional<std::string> disagreement(const Side& mine, const Side& other, const char* doing);

  std::map<Way, Traffic> ways_;
};

}  // namespace trireme
