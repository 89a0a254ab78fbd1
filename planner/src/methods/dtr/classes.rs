//! Classes of evicted tensors, as a union-find structure with a cost at each root.

/// A node of the structure.
pub(super) type Node = u32;

/// Which nodes are in one class, and what computing all of each class costs.
#[derive(Debug, Default)]
pub(super) struct Classes {
    parent: Vec<Node>,
    /// Nanoseconds; only a root's counts. A node that left took its cost along, so that a cost may
    /// fall below zero where it joined with none.
    cost: Vec<i64>,
}

impl Classes {
    /// A class of one node.
    pub fn alone(&mut self, cost: i64) -> Node {
        let node = self.parent.len() as Node;
        self.parent.push(node);
        self.cost.push(cost);
        node
    }

    /// The root of a node's class.
    pub fn root(&mut self, node: Node) -> Node {
        let mut root = node;
        while self.parent[root as usize] != root {
            root = self.parent[root as usize];
        }
        let mut node = node;
        while node != root {
            node = std::mem::replace(&mut self.parent[node as usize], root);
        }
        root
    }

    /// Cost of the class of a root.
    pub fn cost(&self, root: Node) -> i64 {
        self.cost[root as usize]
    }

    /// Joins two classes.
    pub fn merge(&mut self, one: Node, other: Node) {
        let (one, other) = (self.root(one), self.root(other));
        if one != other {
            self.parent[one as usize] = other;
            self.cost[other as usize] += self.cost[one as usize];
        }
    }

    /// Takes a node's own cost off its class. The class stays together otherwise.
    pub fn leave(&mut self, node: Node, cost: i64) {
        let root = self.root(node);
        self.cost[root as usize] -= cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_add_up_and_nodes_leave_them() {
        let mut classes = Classes::default();
        let nodes: Vec<Node> = [1, 20, 300].map(|cost| classes.alone(cost)).to_vec();
        classes.merge(nodes[0], nodes[1]);
        classes.merge(nodes[1], nodes[0]);
        let root = classes.root(nodes[0]);
        assert_eq!(classes.cost(root), 21);
        classes.merge(nodes[2], nodes[0]);
        classes.leave(nodes[1], 20);
        let root = classes.root(nodes[2]);
        assert_eq!(classes.cost(root), 301);
        assert!(nodes.iter().all(|node| classes.root(*node) == root));
    }
}
