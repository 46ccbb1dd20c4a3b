#include "parallel/ddp/replicator.h"

#include "engine/base/clock.h"
#include "engine/base/numbers.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_slab.h"
#include "parallel/ddp/stream_ordered.h"

namespace gemel::parallel {
namespace {

const OpDef& replicate_def() {
  static const OpDef def{
      .name = "replicate_parameters",
      .doc = "A slab of parameters becomes the first rank's.",
      .inputs = {"parameters"},
      .outputs = {},
      .attributes = {{"replicator", Type::state, "which brings them"}, {"slab", Type::integer, "its number"}},
      .infer = [](const Specs&, const Attributes&) { return Specs{}; },
      .cost = [](const Problem&) { return Cost{}; },
      .writes = {0},
      .execute = [](Interpreter&, const Attributes& a, std::span<const Value>,
                    std::span<const Value>) { static_cast<Replicator&>(*a.state("replicator")).broadcast(at(a.integer("slab"))); },
  };
  return def;
}

}  // namespace

Replicator::Replicator(Session& session, CommunicationThread& communication, const std::vector<NamedValue>& parameters, std::shared_ptr<Reducer> reducer)
    : session_(session), communication_(communication), slabs_(slabs_of(values_of(parameters))), reducer_(std::move(reducer)) {}

void Replicator::replicate() {
  for (std::size_t i = 0; i < slabs_.size(); ++i)
    apply(replicate_def(), list(slabs_[i]->parameters().whole()),
          {{"replicator", std::shared_ptr<State>(shared_from_this())}, {"slab", static_cast<std::int64_t>(i)}});
}

void Replicator::broadcast(std::size_t slab) {
  submit_stream_ordered(session_, communication_,
                        [self = shared_from_this(), whole = slabs_[slab]->parameters().whole()](Collectives& c, const Event& computed) {
                          computed.wait();
                          const std::int64_t begin = steady_ns();
                          HostView view = map(whole, c.rank() == 0 ? Access::read : Access::write, computed);
                          c.broadcast(view.bytes());
                          view.release().wait();
                          self->reducer_->add_exposed(1e-9 * static_cast<double>(steady_ns() - begin));
                        });
}

}  // namespace gemel::parallel
