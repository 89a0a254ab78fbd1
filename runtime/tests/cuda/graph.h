// Graphs of the driver that is none: what captured streams are given, with an edge for each stream's order
// and for each event that is waited for. Launched, nodes run one after the other, in any order that edges
// allow.
//
// What the environment says: TIDEGATE_GRAPH, a file to which a line is written for each node of a graph that
// is captured: `event` or `work`, and the numbers of the nodes that it comes after.

namespace stand_in {

struct Graph {
    // Copies of what was captured; `after` are places in it.
    struct Part {
        std::function<void()> run;
        Event* records;
        std::vector<size_t> after;
    };
    std::vector<Part> parts;
};

// All nodes that come before these, and these.
static std::set<Node*> behind(std::vector<Node*> from) {
    std::set<Node*> all;
    while (!from.empty()) {
        Node* node = from.back();
        from.pop_back();
        if (all.insert(node).second) from.insert(from.end(), node->after.begin(), node->after.end());
    }
    return all;
}

static void write_down(const Graph& graph, const char* path) {
    FILE* file = fopen(path, "w");
    for (const Graph::Part& part : graph.parts) {
        fprintf(file, part.records ? "event" : "work");
        for (size_t on : part.after) fprintf(file, " %zu", on);
        fprintf(file, "\n");
    }
    fclose(file);
}

// Runs it on a stream, whose time goes on to its end.
static void run(const Graph& graph, Stream* stream) {
    std::vector<uint64_t> ends(graph.parts.size());
    std::vector<size_t> left(graph.parts.size());
    for (size_t i = 0; i < left.size(); i++) left[i] = i;
    std::vector<bool> done(graph.parts.size());
    uint64_t begin = stream->now;
    while (!left.empty()) {
        size_t drawn = emulator::next() % left.size();
        for (size_t tries = 0;; tries++, drawn = (drawn + 1) % left.size()) {
            if (tries == left.size()) emulator::fail("a graph with a circle");
            const auto& after = graph.parts[left[drawn]].after;
            bool ready = true;
            for (size_t on : after) ready = ready && done[on];
            if (ready) break;
        }
        size_t index = left[drawn];
        left.erase(left.begin() + drawn);
        const Graph::Part& part = graph.parts[index];
        ends[index] = begin;
        for (size_t on : part.after) ends[index] = std::max(ends[index], ends[on]);
        if (part.run) {
            part.run();
            ends[index] += 1000 + emulator::next() % 1000;
        }
        if (part.records) part.records->records.push_back(new Record{true, ends[index]});
        done[index] = true;
        if (ends[index] > stream->now) stream->now = ends[index];
    }
}

}  // namespace stand_in

API cuStreamBeginCapture_v2(void* at, int) {
    Stream* stream = (Stream*)at;
    if (stream->capture) return 1;
    stream->capture = new Capture{stream, {}, false};
    stream->last.clear();
    captures++;
    return 0;
}
API cuStreamEndCapture(void* at, void** to) {
    Stream* stream = (Stream*)at;
    Capture* capture = stream->capture;
    *to = nullptr;
    if (!capture || capture->origin != stream) return 1;
    std::set<Node*> joined = behind(stream->last);
    int error = capture->broken ? 901 : 0;
    for (Stream* other : streams) {
        if (other->capture != capture) continue;
        for (Node* node : other->last) {
            if (!joined.count(node)) error = error ? error : 904;
        }
        other->capture = nullptr;
    }
    captures--;
    Graph* graph = new Graph;
    std::map<Node*, size_t> places;
    for (Node* node : capture->nodes) {
        std::vector<size_t> after;
        for (Node* on : node->after) after.push_back(places.at(on));
        places[node] = graph->parts.size();
        graph->parts.push_back(Graph::Part{node->run, node->records, after});
    }
    for (Node* node : capture->nodes) delete node;
    delete capture;
    if (error) return delete graph, error;
    if (const char* path = getenv("TIDEGATE_GRAPH")) write_down(*graph, path);
    return *to = graph, 0;
}
// Nodes have the priorities of their streams.
API cuGraphInstantiateWithFlags(void** to, void* graph, unsigned long long flags) {
    return *to = new Graph(*(Graph*)graph), flags == 8 ? 0 : 1;
}
API cuGraphDestroy(void* graph) { return delete (Graph*)graph, 0; }
API cuGraphExecDestroy(void* graph) { return is_busy() ? 1 : (delete (Graph*)graph, 0); }
API cuGraphLaunch(void* graph, void* at) {
    Stream* stream = (Stream*)at;
    if (stream->capture) return 900;
    return later(stream, [=] { run(*(Graph*)graph, stream); });
}
// Only while it is captured.
API cuEventRecordWithFlags(void* event, void* at, unsigned flags) {
    Stream* stream = (Stream*)at;
    if (flags != 1 || !stream->capture || !((Event*)event)->timed) return 1;
    return captured(stream, nullptr, (Event*)event), 0;
}
