/** What the markup in the sources becomes; the build puts it in reach of every file. */

export { Fragment, h } from "preact";
