// The messages of a simulated plan, and the matching of sends and receives. See [Note: channels of a plan] in
// validate.h.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/plan/plan.h"

namespace trireme {

class PlanMessages {
 public:
  struct Position {
    int rank = 0;
    std::size_t action = 0;  // index in the rank's plan
  };

  struct SendingRank {
    int rank = 0;
    int send_window = 1;
  };
  /// False while `send` would wait for the receive of an earlier one to be posted. See [Note: what blocks].
  bool can_send(const Action& send, const SendingRank& from) const;
  /// Enters one side of a message. Returns an error text if the other side has a different message.
  std::optional<std::string> add_send(const Position& position, const Action& send);
  std::optional<std::string> add_receive(const Position& position, const Action& receive);

  /// True if the message of an entered receive has been sent.
  bool has_arrived(int rank, const Action& receive) const;
  /// The same for a receive that is about to be entered.
  bool next_has_arrived(int rank, const Action& receive) const;
  /// True if the receives of all messages of a rank have been posted.
  bool all_posted(int rank) const;

  struct Unmatched {
    Position position;
    int peer = 0;
  };
  /// An entered receive of `rank` whose message has not been sent.
  std::optional<Position> waiting_receive(int rank) const;
  /// A message that was entered on one side only.
  std::optional<Unmatched> unmatched_send() const;
  std::optional<Unmatched> unmatched_receive() const;

 private:
  // One Channel between two ranks.
  struct Link {
    Channel channel = Channel::kNone;
    int source = 0, destination = 0;
    auto operator<=>(const Link&) const = default;
  };
  // Identified by the action that sends it.
  struct Message {
    ActionKind sent_by = ActionKind::kSendActivation;
    int unit = 0, micro_batch = 0;
    bool operator==(const Message&) const = default;
    std::string to_string() const;
  };
  struct Side {
    std::vector<Message> messages;
    std::vector<Position> positions;
  };
  struct Traffic {
    Side sent, posted;
    std::map<std::pair<ActionKind, int>, int>
        not_posted;  // by kind and unit of the sends; negative: posted before sent
  };
  static Link link_of(int rank, const Action& action);
  static Message message_of(int rank, const Action& action);
  static std::optional<std::string> disagreement(const Side& mine, const Side& other, const char* doing);

  std::map<Link, Traffic> links_;
};

}  // namespace trireme
