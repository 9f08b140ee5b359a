import { render } from "preact";
import { App } from "./app";
import { drawBy } from "./state/signal";
import "./style/index.css";

const root = document.getElementById("app");
const draw = (): void => {
  if (root !== null) render(<App />, root);
};
drawBy(draw);
draw();
