// What activations and gradients are stored as.
typedef float Element;
